/** Events of the controllers, as Kubernetes Events and as log lines. */
import type { KubeApi } from '../kube/api.ts';
import { type EventInput, EventRecorder } from '../kube/event-recorder.ts';
import type { LogFields, Log } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics/metrics.ts';
import { systemClock } from '../runtime/clock.ts';

export interface EventsOptions {
  readonly api: KubeApi;
  /** @see EventRecorderOptions.instance */
  readonly instance: string;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Between log lines about dropped events, ms. Without the right to write events all are dropped; the metric counts them. */
const DROPPED_LOG_MS = 60_000;

export class Events {
  readonly #options: EventsOptions;
  /** By component. */
  readonly #recorders = new Map<string, EventRecorder>();
  /** Monotonic. */
  #nextDropLog = 0;

  constructor(options: EventsOptions) {
    this.#options = options;
  }

  /** @see ControllerContext.recordEvent */
  record(component: string, event: EventInput, fields: LogFields): void {
    const { type, reason, message } = event;
    this.#options.log[type === 'Warning' ? 'warn' : 'info'](message, { ...fields, reason });
    this.#recorder(component).record(event);
  }

  /** Writes the pending events within `drainMs`. */
  async stop(drainMs: number): Promise<void> {
    await Promise.all(Array.from(this.#recorders.values(), async (recorder) => await recorder.stop({ drainMs })));
  }

  #recorder(component: string): EventRecorder {
    let recorder = this.#recorders.get(component);
    if (recorder === undefined) {
      const { api, instance, metrics } = this.#options;
      recorder = new EventRecorder({
        api,
        component,
        instance,
        onDrop: ({ subject: { kind, namespace, name }, reason }, error) => {
          metrics.eventsDropped.inc({ reason });
          const now = systemClock.monotonic();
          if (now < this.#nextDropLog) return;
          this.#nextDropLog = now + DROPPED_LOG_MS;
          this.#options.log.warn('cannot write an event', { kind, namespace, name, reason, error });
        },
      });
      this.#recorders.set(component, recorder);
    }
    return recorder;
  }
}
