import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keptAnnotations, optInOf, settingsOf } from './settings.ts';

const GENERATE = 'keyferry.dev/generate-';

/** Makes annotations from short names: `format` stands for `keyferry.dev/generate-format`. */
function annotated(settings: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(settings).map(([name, value]) => [`${GENERATE}${name}`, value]));
}

test('an ExternalSecret opts in with create "true"; with --all it also opts in without the annotation, and opts out with "false"', () => {
  const cases: readonly [create: string | undefined, named: string, all: string][] = [
    [undefined, 'no', 'yes'],
    ['true', 'yes', 'yes'],
    ['false', 'wrong', 'no'],
    ['True', 'wrong', 'wrong'],
    ['TRUE', 'wrong', 'wrong'],
    [' true', 'wrong', 'wrong'],
    ['yes', 'wrong', 'wrong'],
    ['1', 'wrong', 'wrong'],
    ['', 'wrong', 'wrong'],
  ];
  for (const [create, named, all] of cases) {
    const annotations = create === undefined ? {} : { create };
    assert.equal(optInOf(annotations, false), named, `${create}`);
    assert.equal(optInOf(annotations, true), all, `${create} with --all`);
  }
});

test('without annotations for settings, a value has 64 hexadecimal characters, and deleted entries get no value', () => {
  const { format, length, whenDeleted } = settingsOf({ create: 'true' });
  assert.deepEqual({ format, length, whenDeleted }, { format: 'hex', length: 64, whenDeleted: false });
});

test('the annotations keyferry.dev/generate-… set format, length, symbols and whenDeleted', () => {
  const of = (settings: Readonly<Record<string, string>>): unknown => {
    const { format, length, whenDeleted } = settingsOf(annotated(settings));
    return [format, length, whenDeleted];
  };
  assert.deepEqual(of({ length: '8' }), ['hex', 8, false]);
  assert.deepEqual(of({ length: '4096', format: 'hex' }), ['hex', 4096, false]);
  assert.deepEqual(of({ format: 'password', 'when-deleted': 'false' }), ['password', 64, false]);
  assert.deepEqual(of({ format: 'uuid', 'when-deleted': 'true' }), ['uuid', 36, true]);
  assert.equal(settingsOf(annotated({ format: 'password', symbols: '#"\\' })).symbols, '#"\\');
});

test('the default symbols of a password need no escaping in a URL', () => {
  const { symbols } = settingsOf(annotated({ format: 'password' }));
  assert.match(symbols, /^[^a-zA-Z\d]+$/);
  assert.equal(encodeURIComponent(symbols), symbols);
});

test('if a setting has a wrong value, the error names the annotation and the allowed values', () => {
  const symbols = { format: 'password' };
  const cases: readonly (readonly [settings: Readonly<Record<string, string>>, annotation: string, says: RegExp])[] = [
    [{ format: 'Hex' }, 'format', /hex, uuid, password, not "Hex"/],
    [{ format: 'alphanumeric' }, 'format', /one of/],
    [{ format: '' }, 'format', /one of/],
    [{ format: 'constructor' }, 'format', /one of/],
    ...['7', '4097', '0', '-64', '64.0', '1e3', '0x40', ' 64', '64 ', '', 'many', '9999999', '٦٤'].map(
      (length) => [{ length }, 'length', /from 8 to 4096/] as const,
    ),
    [{ format: 'uuid', length: '36' }, 'length', /no meaning for the format uuid/],
    [{ symbols: '#' }, 'symbols', /only for the format password/],
    ...['', ' ', '# ', 'a#', '#1', '##', 'é', '\u0000', '\u007F', '#'.repeat(65)].map(
      (value) => [{ ...symbols, symbols: value }, 'symbols', /no letters, digits or spaces, each once/] as const,
    ),
    [{ 'when-deleted': 'True' }, 'when-deleted', /"true" or "false", not "True"/],
    [{ 'when-deleted': '' }, 'when-deleted', /"true" or "false"/],
  ];
  for (const [settings, annotation, says] of cases) {
    assert.throws(
      () => settingsOf(annotated(settings)),
      (error: Error) => {
        assert.equal(error.name, 'SettingError', JSON.stringify(settings));
        assert.ok(error.message.includes(`the annotation ${GENERATE}${annotation} `), error.message);
        assert.match(error.message, says);
        return true;
      },
    );
  }
});

test('if a wrong setting has 200,000 characters, the error has fewer than 300', () => {
  assert.throws(
    () => settingsOf(annotated({ format: 'x'.repeat(200_000) })),
    ({ message }: Error) => message.length < 300,
  );
});

test('only annotations that the generator reads are stored, and longer values are cut at 131,072 characters', () => {
  const ours = { create: 'true', ...annotated({ length: '16' }), 'keyferry.dev/generator': '{}' };
  assert.deepEqual(keptAnnotations({ ...ours, other: 'x', 'force-sync': '1' }), ours);
  assert.deepEqual(keptAnnotations(undefined), {});
  assert.ok(keptAnnotations({ create: 'x'.repeat(200_000) })['create']!.length <= 131_072);
});
