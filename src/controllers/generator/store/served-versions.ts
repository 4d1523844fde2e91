/**
 * The version of ESO's API that the server serves. ESO 0.16 serves v1beta1 beside v1, older releases only v1beta1, newer ones only v1, and a
 * cluster may change from one to another at any time.
 */
import type { KubeApi } from '../../../kube/api.ts';
import { isNotFound } from '../../../kube/errors.ts';
import { parseJson } from '../../../kube/json.ts';
import { ESO_GROUP, ESO_VERSIONS, type EsoVersion } from '../api.ts';

/** Resources that must be served in the version. */
const NEEDED = 'externalsecrets';

export class ServedVersions {
  readonly #api: KubeApi;
  #version: EsoVersion = ESO_VERSIONS[0];
  #refreshing: Promise<boolean> | undefined;

  constructor(api: KubeApi) {
    this.#api = api;
  }

  get version(): EsoVersion {
    return this.#version;
  }

  /** `/apis/external-secrets.io/v1` */
  get groupPath(): string {
    return `/apis/${ESO_GROUP}/${this.#version}`;
  }

  get apiVersion(): string {
    return `${ESO_GROUP}/${this.#version}`;
  }

  /** Asks the server. @returns whether ExternalSecrets are served @throws ApiError, ConnectionError */
  async refresh(signal?: AbortSignal): Promise<boolean> {
    this.#refreshing ??= this.#ask(signal).finally(() => {
      this.#refreshing = undefined;
    });
    return await this.#refreshing;
  }

  async #ask(signal: AbortSignal | undefined): Promise<boolean> {
    for (const version of ESO_VERSIONS) {
      if (!(await this.#isServed(version, signal))) continue;
      this.#version = version;
      return true;
    }
    return false;
  }

  async #isServed(version: EsoVersion, signal: AbortSignal | undefined): Promise<boolean> {
    const path = `/apis/${ESO_GROUP}/${version}`;
    try {
      const { body } = await this.#api.request({ method: 'GET', path, signal });
      const { resources = [] } = parseJson(body, `the answer to GET ${path}`) as { resources?: { name?: string }[] };
      return resources.some(({ name }) => name === NEEDED);
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  }
}
