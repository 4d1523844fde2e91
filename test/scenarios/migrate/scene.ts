/**
 * The scene for tests of `keyferry migrate`: objects as users and other copiers leave them, runs of the command, and
 * the operator that runs afterwards.
 */
import assert from 'node:assert/strict';

import { migrateSchema } from '../../../scripts/reports/schemas.ts';
import type { ControlPlane } from '../../servers/control-plane.ts';
import type { Json } from '../../support/api.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';
import { runProgram } from '../cli/program.ts';

export type Map = Readonly<Record<string, string>>;

export const path = (place: string, plural = 'secrets'): string => {
  const [namespace, name] = place.split('/');
  return `/api/v1/namespaces/${namespace}/${plural}/${name}`;
};

export class Scene {
  readonly #plane: ControlPlane;

  constructor(plane: ControlPlane) {
    this.#plane = plane;
  }

  /** Creates a Secret as a user or a copier leaves it. */
  async secret(place: string, data: Map, annotations: Map = {}, labels: Map = {}): Promise<Json> {
    const [namespace, name] = place.split('/');
    const metadata = { namespace, name, annotations, labels };
    return await this.#plane.api.create({ apiVersion: 'v1', kind: 'Secret', metadata, stringData: data });
  }

  /**
   * Runs `keyferry migrate -o json`. @param kubeconfig with which the command connects; a test may give that of a proxy
   */
  async migrate(args: readonly string[], kubeconfig = this.#plane.kubeconfigPath) {
    const result = await runProgram(['migrate', ...args, '-o', 'json', `--kubeconfig=${kubeconfig}`]);
    const { code, stdout, stderr } = result;
    assert.notEqual(stdout, '', stderr);
    const report = migrateSchema.parse(JSON.parse(stdout));
    const findings = report.programs.flatMap(({ findings: all }) =>
      all.map(({ verdict, object, text, result: done, error }) => ({
        line: `${done ?? verdict} ${object.namespace}/${object.name}`,
        text: error === null ? text : `${text}: ${error}`,
      })),
    );
    return {
      code,
      stderr,
      report,
      lines: findings.map(({ line }) => line).toSorted(),
      textOf: (line: string) => findings.find((finding) => finding.line === line)?.text ?? '',
      /** The texts of all findings and decisions in the report. */
      texts: [...findings.map(({ text }) => text), ...report.targets.map(({ reason }) => reason)],
    };
  }

  async holds(place: string, key: string, value: string): Promise<Json> {
    return await waitFor(
      async () => {
        const found = await this.#plane.api.find(path(place));
        const isEqual = Buffer.from(found?.data?.[key] ?? '', 'base64').toString() === value;
        return isEqual ? found : undefined;
      },
      { message: `${place} to hold the new value of ${key}` },
    );
  }

  async change(place: string, stringData: Map): Promise<void> {
    await this.#plane.api.patch(path(place), { stringData });
  }

  async annotate(place: string, annotations: Readonly<Record<string, string | null>>, plural?: string): Promise<void> {
    await this.#plane.api.patch(path(place, plural), { metadata: { annotations } });
  }

  /** Runs the operator while `work` runs. */
  async withOperator(work: () => Promise<void>): Promise<void> {
    const keyferry = await Keyferry.start({ kubeconfig: this.#plane.kubeconfigPath, command: 'replicator' });
    try {
      await keyferry.ready();
      await work();
    } finally {
      await keyferry.kill9();
    }
  }
}
