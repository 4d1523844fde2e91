import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import type { VaultResponse } from '../client/answer.ts';
import type { JsonObject } from '../json.ts';
import { parseJson } from '../json.ts';
import { plainEntry, versionedEntry } from './answers.ts';

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

describe('an answer of KV 2', () => {
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
