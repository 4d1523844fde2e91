/**
 * What the page, its server and the command `keyferry ui` exchange: types alone. The command (`src/commands/ui.ts`)
 * reads the cluster, so page and server know nothing of Kubernetes.
 */
import type { PlanReport, StatusReport } from '../scripts/reports/schemas.ts';

type Rule = StatusReport['rules'][number];

/** An object, or an entry of Vault. Without `cluster`, it is in the cluster of the page. */
export type Place = Omit<Rule['elsewhere'][number], 'cluster'> & { readonly cluster?: string };

export interface PageRule extends Rule {
  /** Unique in the cluster: system, kind, namespace and name. */
  readonly id: string;
}

/** What a reason means, who can end it, and how; '': nobody needs to do anything. */
export type Advice = Readonly<Record<'says' | 'who' | 'how', string>>;

/** Everything but the rules and the time. */
export interface PageFrame extends Pick<StatusReport, 'cluster' | 'notes' | 'namespaces' | 'orphans'> {
  /** What the rules of all controllers are called, in the plural. */
  readonly ruleNames: string;
  /** Whether a namespace accepts nobody without a consent. */
  readonly requiresConsent: boolean;
  /** By reason. */
  readonly advice: Readonly<Record<string, Advice>>;
}

export interface PageData extends PageFrame {
  /** When the data were read, RFC 3339. */
  readonly at: string;
  readonly rules: readonly PageRule[];
}

/** A line of the stream: what the page does not have yet. */
export interface PageMessage {
  readonly at: string;
  /** Why the data may be out of date. */
  readonly trouble: { readonly since: string; readonly message: string } | null;
  /** Absent: it is as before. */
  readonly frame?: PageFrame;
  /** The rules that are new or have changed. */
  readonly rules: readonly PageRule[];
  /** The ids of those that are gone. */
  readonly gone: readonly string[];
}

/** What the command gives the server. */
export interface PageSource {
  readonly cluster: string;
  /** @throws the errors of `api.request` */
  readonly read: () => Promise<PageData>;
  /** Calls `onData` after each change and `onTrouble` when the connection is lost or back, until the signal is aborted. */
  readonly follow: (
    onData: (data: PageData) => void,
    onTrouble: (message: string | undefined) => void,
    signal: AbortSignal,
  ) => Promise<void>;
  /** @throws Error, whose message is for the user */
  readonly plan: (manifests: string) => Promise<PlanReport>;
}

/** What the command line asks for. */
export interface PageOptions {
  /** Write the page with its data into this file, and end; `undefined`: serve it. */
  readonly out: string | undefined;
  readonly redact: boolean;
  /** 0: any free port. */
  readonly port: number;
  readonly open: boolean;
}
