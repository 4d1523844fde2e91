/** Runs the real Helm on the project's chart. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';

import { ensureServer } from '../../servers/ensure.ts';
import { Reaper } from '../../servers/reaper.ts';
import type { Json } from '../../support/api.ts';

export const CHART = path.join(import.meta.dirname, '../../../deploy/helm/keyferry');
/** Each release must set this value, because the chart names no published image. */
export const IMAGE = { 'image.repository': 'keyferry' };
export const RELEASE = 'keyferry';
export const NAMESPACE = 'platform';
export const KUBERNETES = '1.36.0';
const LIMIT_BYTES = 32 * 1024 * 1024;
const TIMEOUT_MS = 120_000;

export interface HelmAnswer {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs Helm with its own empty folder for caches.
 * @param kubeconfig - `undefined` if the command needs no cluster
 * @param program - which version of Helm
 */
export async function helm(
  args: readonly string[],
  kubeconfig?: string,
  program: 'helm' | 'helm-4' = 'helm',
): Promise<HelmAnswer> {
  const command = await ensureServer(program);
  const home = await Reaper.shared().temporaryFolder('keyferry-helm-');
  const env = {
    PATH: process.env['PATH'],
    HOME: home,
    HELM_CACHE_HOME: home,
    HELM_CONFIG_HOME: home,
    HELM_DATA_HOME: home,
    KUBECONFIG: kubeconfig ?? '/dev/null',
  };
  const options = { env, maxBuffer: LIMIT_BYTES, timeout: TIMEOUT_MS };
  try {
    return { code: 0, ...(await promisify(execFile)(command, [...args], options)) };
  } catch (error) {
    const { code, stdout = '', stderr = '' } = error as { code?: unknown; stdout?: string; stderr?: string };
    if (typeof code !== 'number') throw error;
    return { code, stdout, stderr };
  }
}

/** The flags of Helm that set these values. `values`: by key, for example `{ 'mirrors.enabled': false }`. */
export function valueFlags(values: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(values).map(([key, value]) => `--set-json=${key}=${JSON.stringify(value)}`);
}

/** The settings of Keyferry that a Deployment of the chart has as environment variables. */
export function settingsOf({ spec }: Json): Record<string, string> {
  const variables: { name: string; value?: string }[] = spec.template.spec.containers[0].env;
  return Object.fromEntries(
    variables.flatMap(({ name, value }) =>
      name.startsWith('KEYFERRY_') && value !== undefined ? [[name, value]] : [],
    ),
  );
}

/** Renders the chart with these values. */
export async function template(values: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const args = ['template', RELEASE, CHART, `--namespace=${NAMESPACE}`, `--kube-version=${KUBERNETES}`];
  const { code, stdout, stderr } = await helm([...args, ...valueFlags({ ...IMAGE, ...values })]);
  assert.equal(code, 0, stderr);
  return stdout;
}

export function objectsIn(text: string): Json[] {
  return parseAllDocuments(text)
    .map((document) => document.toJS())
    .filter((object) => object !== null);
}

export const one = (objects: readonly Json[], kind: string): Json => objects.find((object) => object.kind === kind);
