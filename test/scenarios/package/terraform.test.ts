/** Tests the Terraform module with the real Terraform and Helm provider, on a real API server. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';

import { startControlPlane } from '../../servers/control-plane.ts';
import type { ControlPlane } from '../../servers/control-plane.ts';
import { findServer } from '../../servers/ensure.ts';
import { Reaper } from '../../servers/reaper.ts';
import type { Json } from '../../support/api.ts';

const DEPLOY = path.join(import.meta.dirname, '../../../deploy');
const DEPLOYMENT = '/apis/apps/v1/namespaces/secrets/deployments/keyferry';
const terraform = findServer('terraform');
const provider = findServer('terraform-provider-helm');
const isMissing = terraform === undefined || provider === undefined;
const skip = isMissing && 'Terraform is not built: run `npm run servers -- terraform terraform-provider-helm` once';

describe('the Terraform module', { skip }, () => {
  let folder: string;
  let example: string;
  let plane: ControlPlane;

  before(async () => {
    plane = await startControlPlane({ controllerManager: false });
    folder = await Reaper.shared().temporaryFolder('keyferry-terraform-');
    cpSync(DEPLOY, path.join(folder, 'deploy'), { recursive: true });
    example = path.join(folder, 'deploy/terraform/examples/basic');
    const plugins = path.join(folder, 'plugins');
    mkdirSync(plugins);
    symlinkSync(provider ?? '', path.join(plugins, 'terraform-provider-helm'));
    // Makes Terraform use the provider in this folder, even if the module names another version.
    const override = `dev_overrides {\n    "hashicorp/helm" = "${plugins}"\n  }`;
    writeFileSync(path.join(folder, 'terraformrc'), `provider_installation {\n  ${override}\n}\n`);
  });
  after(async () => {
    await plane.stop();
    await Reaper.shared().removeFolder(folder);
  });

  const run = async (...args: string[]): Promise<string> => {
    const env = {
      PATH: process.env['PATH'],
      HOME: folder,
      TF_CLI_CONFIG_FILE: path.join(folder, 'terraformrc'),
      CHECKPOINT_DISABLE: '1',
      // Older versions of the provider read KUBECONFIG, newer versions KUBE_CONFIG_PATH.
      KUBECONFIG: plane.kubeconfigPath,
      KUBE_CONFIG_PATH: plane.kubeconfigPath,
    };
    const { stdout } = await promisify(execFile)(terraform ?? '', args, { cwd: example, env });
    return stdout;
  };

  const container = async (): Promise<Json> => (await plane.api.find(DEPLOYMENT)).spec.template.spec.containers[0];

  it('the Terraform module is formatted, and `terraform validate` accepts it', async () => {
    assert.equal(await run('fmt', '-check', '-recursive', '-diff', '../..'), '');
    await run('get');
    const { valid, diagnostics } = JSON.parse(await run('validate', '-json'));
    assert.ok(valid);
    assert.deepEqual(
      diagnostics.map(({ summary }: Json) => summary),
      ['Provider development overrides are in effect'],
    );
  });

  it('the Terraform module installs and changes the chart with its values, and terraform destroy keeps the CRDs', async () => {
    // Do not wait for ready replicas: no kubelet runs here, so no replica becomes ready.
    const flags = ['-auto-approve', '-input=false', '-var=wait=false'];
    await run('apply', ...flags);
    assert.equal((await container()).image, 'registry.example.com/keyferry:0.1.0');
    const { args, env } = await container();
    assert.ok(args.includes('--vault-addresses=https://*.vault.svc:8200'), args);
    assert.ok(
      env.some((one: Json) => one.name === 'KEYFERRY_CONTROLLERS' && one.value === 'mirrors'),
      JSON.stringify(env),
    );
    assert.match(await run('output', 'chart_version'), /^"\d+\.\d+\.\d+"\n$/);
    // With -detailed-exitcode, `plan` fails if it would change something.
    await run('plan', '-input=false', '-detailed-exitcode', '-var=wait=false');
    await run('apply', ...flags, '-var=image=registry.example.com/other');
    assert.equal((await container()).image, 'registry.example.com/other:0.1.0');

    // `destroy` fails because the CRDs stay: this version of the provider reports them as an error; 2.0.3 does not.
    await assert.rejects(run('destroy', ...flags), /manifest-/);
    assert.equal(await plane.api.find(DEPLOYMENT), undefined);
    const crd = 'secretmirrors.mirrors.kts.studio';
    assert.ok(await plane.api.find(`/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${crd}`));
  });
});
