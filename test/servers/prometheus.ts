/** Runs a real Prometheus that scrapes its targets every second, and promtool. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { stringify } from 'yaml';

import { HttpClient } from '../support/http.ts';
import { PATIENCE_MS } from '../support/wait-for.ts';
import { ensureServer } from './ensure.ts';
import { freePort } from './ports.ts';
import { Reaper } from './reaper.ts';
import { ServerProcess } from './server-process.ts';

export interface PrometheusOptions {
  /** The process to scrape for each job, as `host:port`. */
  readonly targets: Readonly<Record<string, string>>;
  /** Files with alert rules. */
  readonly ruleFiles?: readonly string[];
}

/** One series in the result of a query. */
export interface QueryResult {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: number;
}

export class Prometheus {
  readonly #process: ServerProcess;
  readonly #http: HttpClient;

  private constructor(server: ServerProcess, address: string) {
    this.#process = server;
    this.#http = new HttpClient(`http://${address}`);
  }

  /** Starts Prometheus. Resolves when it has scraped each target. */
  static async start({ targets, ruleFiles = [] }: PrometheusOptions): Promise<Prometheus> {
    const command = await ensureServer('prometheus');
    const folder = await Reaper.shared().temporaryFolder('keyferry-prometheus-');
    const config = path.join(folder, 'prometheus.yml');
    const scrapes = Object.entries(targets).map(([job, target]) => {
      return { job_name: job, static_configs: [{ targets: [target] }] };
    });
    const global = { scrape_interval: '1s', evaluation_interval: '1s' };
    await writeFile(config, stringify({ global, rule_files: ruleFiles, scrape_configs: scrapes }));
    const address = `127.0.0.1:${await freePort()}`;
    const args = [
      `--config.file=${config}`,
      `--storage.tsdb.path=${path.join(folder, 'data')}`,
      `--web.listen-address=${address}`,
    ];
    const server = new ServerProcess({
      name: 'prometheus',
      command,
      args,
      cwd: folder,
      logFile: path.join(folder, 'log'),
    });
    const prometheus = new Prometheus(server, address);
    for (const job of Object.keys(targets)) {
      const isScraped = async (): Promise<boolean> => (await prometheus.query(`up{job="${job}"}`))[0]?.value === 1;
      await server.ready(isScraped, PATIENCE_MS);
    }
    return prometheus;
  }

  /** Runs an instant query. @throws Error with Prometheus's message, if it refuses the query */
  async query(expression: string): Promise<QueryResult[]> {
    const { result } = await this.#get(`/api/v1/query?query=${encodeURIComponent(expression)}`);
    return result.map(({ metric, value }: { metric: QueryResult['metric']; value: [number, string] }) => {
      return { metric, value: Number(value[1]) };
    });
  }

  /** The labels of all series that match a selector. */
  async series(match: string): Promise<Readonly<Record<string, string>>[]> {
    return await this.#get(`/api/v1/series?match[]=${encodeURIComponent(match)}`);
  }

  /** The health of each alert rule. It is `ok` after Prometheus has evaluated the rule without an error. */
  async ruleHealth(): Promise<Readonly<Record<string, string>>> {
    const { groups } = await this.#get('/api/v1/rules');
    const rules = groups.flatMap((group: { rules: { name: string; health: string }[] }) => group.rules);
    return Object.fromEntries(rules.map(({ name, health }: { name: string; health: string }) => [name, health]));
  }

  async stop(): Promise<void> {
    this.#http.close();
    await this.#process.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  // oxlint-disable-next-line typescript/no-explicit-any -- the answers of several calls
  async #get(url: string): Promise<any> {
    const { text } = await this.#http.send(url);
    const { status, data, error } = JSON.parse(text);
    if (status !== 'success') throw new Error(`Prometheus: ${error}`);
    return data;
  }
}

/** Runs promtool. @returns its output @throws Error with its output, if it finds a mistake */
export async function promtool(...args: readonly string[]): Promise<string> {
  const { stdout, stderr } = await promisify(execFile)(await ensureServer('promtool'), args);
  return stdout + stderr;
}
