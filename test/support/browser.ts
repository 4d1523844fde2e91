/**
 * Drives Debian's Chromium by its DevTools protocol, for the tests of the page. No library is needed: Node has a
 * WebSocket, and the tests need a few commands alone.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';

import { Reaper } from '../servers/reaper.ts';
import { waitFor } from './wait-for.ts';

const CHROMIUM = '/usr/bin/chromium';

/** Why the tests cannot run here, for `skip`; `false`: they can. */
export const WITHOUT_BROWSER = existsSync(CHROMIUM) ? false : 'needs the Debian package chromium';

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly sessionId?: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads arbitrary fields
  readonly params?: any;
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads arbitrary fields
  readonly result?: any;
  readonly error?: { readonly message: string };
}

export class Browser implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #socket: WebSocket;
  readonly #folder: string;
  readonly #waiting = new Map<number, (message: Message) => void>();
  readonly #tabs = new Map<string, Tab>();
  #next = 1;

  private constructor(child: ChildProcess, socket: WebSocket, folder: string) {
    this.#child = child;
    this.#socket = socket;
    this.#folder = folder;
    socket.addEventListener('message', ({ data }) => {
      const message = JSON.parse(String(data)) as Message;
      if (message.id !== undefined) this.#waiting.get(message.id)?.(message);
      else if (message.sessionId !== undefined) this.#tabs.get(message.sessionId)?.onEvent(message);
    });
  }

  static async start(): Promise<Browser> {
    const folder = await Reaper.shared().temporaryFolder('keyferry-chromium-');
    const flags = [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--hide-scrollbars',
      '--no-first-run',
    ];
    const child = spawn(CHROMIUM, [...flags, '--remote-debugging-port=0', `--user-data-dir=${folder}`, 'about:blank'], {
      stdio: 'ignore',
    });
    if (child.pid !== undefined) Reaper.shared().addProcess(child.pid);
    const file = path.join(folder, 'DevToolsActivePort');
    await waitFor(() => existsSync(file), { message: 'Chromium to listen' });
    const [port, address] = (await readFile(file, 'utf8')).split('\n');
    const socket = new WebSocket(`ws://127.0.0.1:${port}${address}`);
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve);
      socket.addEventListener('error', reject);
    });
    return new Browser(child, socket, folder);
  }

  /** @param scheme light or dark */
  async open(url: string, size = { width: 1440, height: 900 }, scheme: 'light' | 'dark' = 'light'): Promise<Tab> {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const close = async (): Promise<void> => void (await this.send('Target.closeTarget', { targetId }));
    const tab = new Tab(async (method, params) => await this.send(method, params, sessionId), close);
    this.#tabs.set(sessionId, tab);
    for (const domain of ['Page', 'Runtime', 'Network', 'Log']) await tab.send(`${domain}.enable`);
    await tab.send('Emulation.setDeviceMetricsOverride', { ...size, deviceScaleFactor: 1, mobile: false });
    await tab.send('Emulation.setEmulatedMedia', {
      features: [
        { name: 'prefers-color-scheme', value: scheme },
        { name: 'prefers-reduced-motion', value: 'reduce' },
      ],
    });
    await tab.send('Page.navigate', { url });
    return tab;
  }

  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads arbitrary fields
  async send(method: string, params: object = {}, sessionId?: string): Promise<any> {
    const id = this.#next++;
    const answer = new Promise<Message>((resolve) => void this.#waiting.set(id, resolve));
    this.#socket.send(JSON.stringify({ id, method, params, sessionId }));
    const { result, error } = await answer;
    this.#waiting.delete(id);
    if (error !== undefined) throw new Error(`${method}: ${error.message}`);
    return result;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit');
    await this.send('Browser.close').catch(() => this.#child.kill('SIGKILL'));
    await ended;
    if (this.#child.pid !== undefined) Reaper.shared().removeProcess(this.#child.pid);
    await Reaper.shared().removeFolder(this.#folder);
  }
}

export class Tab {
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads arbitrary fields
  readonly send: (method: string, params?: object) => Promise<any>;
  /** Errors and warnings of the console, uncaught exceptions, and what the policy refused. */
  readonly complaints: string[] = [];
  /** The addresses of all requests. */
  readonly requests: string[] = [];

  readonly close: () => Promise<void>;

  constructor(send: Tab['send'], close: () => Promise<void>) {
    this.send = send;
    this.close = close;
  }

  onEvent({ method, params }: Message): void {
    if (method === 'Runtime.exceptionThrown')
      this.complaints.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === 'Log.entryAdded' && params.entry.level !== 'info')
      this.complaints.push(`${params.entry.text} ${params.entry.url ?? ''}`);
    if (method === 'Network.requestWillBeSent') this.requests.push(params.request.url);
  }

  /** The value of an expression in the page. */
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads arbitrary fields
  async eval(expression: string): Promise<any> {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    if (exceptionDetails !== undefined)
      throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /** What a reader sees. */
  async text(): Promise<string> {
    return (await this.eval('document.body?.innerText ?? ""')) as string;
  }

  async sees(pattern: RegExp): Promise<void> {
    let text = '';
    const message = (): string => `the page to show ${pattern}:\n${text}\n${this.complaints.join('\n')}`;
    await waitFor(async () => pattern.test((text = await this.text())), { message });
  }

  /** Goes to a view: `#problems`. */
  async go(hash: string): Promise<void> {
    await this.eval(`location.hash = ${JSON.stringify(hash)}`);
  }

  /** Waits until the page has drawn. */
  async frame(): Promise<void> {
    await this.eval(
      'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(undefined))))',
    );
  }

  async press(key: string): Promise<void> {
    const text = key.length === 1 ? { text: key } : key === 'Enter' ? { text: '\r' } : {};
    await this.send('Input.dispatchKeyEvent', { type: 'keyDown', key, code: key, ...text });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', key, code: key });
  }

  async type(text: string): Promise<void> {
    await this.send('Input.insertText', { text });
  }

  async click(selector: string): Promise<void> {
    await this.eval(`document.querySelector(${JSON.stringify(selector)}).click()`);
  }

  async screenshot(): Promise<Buffer> {
    return Buffer.from((await this.send('Page.captureScreenshot', { format: 'png' })).data as string, 'base64');
  }
}
