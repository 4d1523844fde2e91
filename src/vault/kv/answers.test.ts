import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assert as check, integer, property } from 'fast-check';

import type { VaultResponse } from '../client/answer.ts';
import type { JsonObject } from '../json.ts';
import { parseJson } from '../json.ts';
import { entryHead, MISSING, plainEntry, versionedEntry } from './answers.ts';

/** Parses `text`, the `data` of an answer. As in the client, numbers keep their digits. */
const json = (text: string): JsonObject => parseJson(text) as JsonObject;
const answer = (text: string | undefined, status = 200): VaultResponse => ({
  status,
  data: text === undefined ? undefined : json(text),
  leaseId: '',
  leaseSeconds: 0,
  renewable: false,
  auth: undefined,
});
const METADATA = '"created_time":"2026-01-01T00:00:00Z","deletion_time":"","destroyed":false,"version":3';

describe('an answer of KV 2', () => {
  it('an answer of KV 2 is read as an entry with values and version, also if it has no values', () => {
    const entry = versionedEntry(answer(`{"data":{"a":"1"},"metadata":{${METADATA}}}`));
    assert.ok(entry?.state === 'found');
    assert.deepEqual([entry.version, entry.createdTime, [...entry.values.keys()]], [3, '2026-01-01T00:00:00Z', ['a']]);
    const empty = versionedEntry(answer(`{"data":{},"metadata":{${METADATA}}}`));
    assert.ok(empty?.state === 'found' && empty.values.size === 0);
  });

  it('if KV 2 answers that a version is deleted or destroyed, the entry has that state and is not found', () => {
    const deleted = `{"data":null,"metadata":{"deletion_time":"2026-01-02T00:00:00Z","destroyed":false,"version":3}}`;
    const expected = { state: 'deleted', version: 3 };
    assert.deepEqual(versionedEntry(answer(deleted, 404)), expected);
    assert.deepEqual(versionedEntry(answer(deleted, 200)), expected);
    const destroyed = '{"data":null,"metadata":{"deletion_time":"","destroyed":true,"version":3}}';
    assert.deepEqual(versionedEntry(answer(destroyed, 404)), { state: 'destroyed', version: 3 });
  });

  it('an answer without data or without a version number is not read as an entry of KV 2', () => {
    for (const text of [
      '{"data":"of KV 1"}',
      '{"data":{"a":"1"}}',
      '{"metadata":{"version":1}}',
      '{"a":"1"}',
      undefined,
    ]) {
      assert.equal(versionedEntry(answer(text)), undefined);
    }
    assert.equal(versionedEntry(answer('{"data":{"a":"1"},"metadata":{"version":"three"}}')), undefined);
  });
});

describe('an answer of another mount', () => {
  const plain = (text: string | undefined, more: object = {}, status = 200): ReturnType<typeof plainEntry> =>
    plainEntry({ ...answer(text, status), tokenId: 'token', ...more }, 1000);

  it('the values in an answer of KV 1 are read unchanged, also a key named data', () => {
    const entry = plain('{"data":"x","b":"y"}');
    assert.ok(entry !== undefined);
    assert.deepEqual([...entry.values.keys()], ['data', 'b']);
    assert.deepEqual([entry.version, entry.lease], [undefined, undefined]);
  });

  it('if an answer has a lease, the entry gets this lease with its token id and the time of the request', () => {
    const lease = plain('{"a":"1"}', { leaseId: 'db/creds/x/1', leaseSeconds: 60, renewable: true })?.lease;
    const expected = {
      leaseId: 'db/creds/x/1',
      durationSeconds: 60,
      renewable: true,
      issuedAt: 1000,
      tokenId: 'token',
    };
    assert.deepEqual(lease, expected);
  });

  it('an answer of KV 1 without data, or with status 404, is not read as an entry', () => {
    assert.equal(plain(undefined), undefined);
    assert.equal(plain('{"a":"1"}', {}, 404), undefined);
  });
});

describe('the metadata of an entry', () => {
  const head = (version: number, of: string, now = Date.parse('2026-06-01T00:00:00Z')): ReturnType<typeof entryHead> =>
    entryHead(json(`{"current_version":${version},"versions":{"${version}":${of}}}`), now);
  const until = (time: string): string => `{"created_time":"c","deletion_time":"${time}","destroyed":false}`;

  it('entryHead reads the latest version and its state from the metadata of an entry', () => {
    assert.deepEqual(head(2, until('')), { state: 'found', version: 2, createdTime: 'c' });
    assert.equal(head(2, until('2026-05-01T00:00:00Z'))?.state, 'deleted');
    assert.equal(head(2, '{"created_time":"c","deletion_time":"","destroyed":true}')?.state, 'destroyed');
    assert.equal(entryHead(json('{"current_version":0,"versions":{}}'), 0), MISSING);
    assert.equal(entryHead(json('{"keys":[]}'), 0), undefined);
    assert.equal(entryHead(undefined, 0), undefined);
  });

  it('if the deletion time of a version is in the future, the entry counts as found until that time', () => {
    const at = Date.parse('2026-06-01T00:00:00Z');
    const early = integer({ min: 1, max: 1e9 });
    check(
      property(early, (ms) => {
        const text = until(new Date(at).toISOString());
        assert.equal(head(1, text, at - ms)?.state, 'found');
        assert.equal(head(1, text, at + ms)?.state, 'deleted');
      }),
    );
  });
});
