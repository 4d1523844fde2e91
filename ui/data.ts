/**
 * What the page, its server and the command `keyferry ui` exchange: types alone. The command (`src/commands/ui.ts`)
 * reads the cluster, so page and server know nothing of Kubernetes.
 */
import type { PlanReport, StatusReport } from '../scripts/reports/schemas.ts';

type Rule = StatusReport['rules'][number];

export interface Place {
  /** '' for the cluster that the page shows. */
  readonly cluster: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}

export interface PageRule extends Rule {
  /** Unique in the cluster: system, kind, namespace and name. */
  readonly id: string;
  /** The object that the rule copies; `null`: an entry of Vault, or not known. */
  readonly from: Place | null;
  /** Since when the condition of the rule has its status, RFC 3339; `null`: it has no condition. */
  readonly since: string | null;
  /** Whether its copies could be counted. */
  readonly isCounted: boolean;
  /** Namespaces that the rule selects but may not copy into, by limit or consent. */
  readonly refused: readonly { readonly namespace: string; readonly reason: string; readonly message: string }[];
}

export interface PageNamespace {
  readonly name: string;
  /** The annotation `keyferry.dev/accept-from`; absent: there is none. */
  readonly acceptFrom?: string;
  /** The limit that keeps every rule out, in words; absent: there is none. */
  readonly closed?: string;
}

/** The person who can end a reason, and how. */
export interface Advice {
  readonly who: 'author' | 'owner' | 'policy' | 'vault' | 'cluster' | 'nobody';
  readonly says: string;
  readonly how: string;
}

/** Everything but the rules. */
export interface PageFrame extends Pick<StatusReport, 'cluster' | 'leaders' | 'notes' | 'orphans'> {
  /** When the data were read, RFC 3339. */
  readonly at: string;
  /** What the rules of all controllers are called, in the plural. */
  readonly ruleNames: string;
  /** Whether a namespace accepts nobody without a consent. */
  readonly requiresConsent: boolean;
  /** `null`: the caller may not list them. */
  readonly namespaces: readonly PageNamespace[] | null;
  /** By reason. */
  readonly advice: Readonly<Record<string, Advice>>;
}

export interface PageData extends PageFrame {
  readonly rules: readonly PageRule[];
}

/** A line of the stream: all data or what changed, or a lost connection. */
export type PageMessage =
  | { readonly frame: PageFrame; readonly rules: readonly PageRule[]; readonly gone: readonly string[] | 'others' }
  | { readonly trouble: Trouble | null };

export interface Trouble {
  readonly since: string;
  readonly message: string;
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
  /** Whether to open the browser. */
  readonly open: boolean;
}

/** What the server needs of the process. */
export interface PageTerminal {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  readonly now: () => number;
  readonly signal: AbortSignal;
}
