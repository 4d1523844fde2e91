/** Admission policies with which a test makes the API server refuse or change writes. */
import { kubernetesMinor } from '../../servers/catalogue.ts';
import type { Json, TestApi } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';

/** The API version of MutatingAdmissionPolicies. In Kubernetes 1.34 it is beta, and off by default. */
const MUTATING = kubernetesMinor() < 36 ? 'v1beta1' : 'v1';

/** The flags that kube-apiserver needs for `overwrite`. */
export const OVERWRITE_FLAGS: readonly string[] =
  MUTATING === 'v1'
    ? []
    : [
        '--feature-gates=MutatingAdmissionPolicy=true',
        `--runtime-config=admissionregistration.k8s.io/${MUTATING}=true`,
      ];

const REGISTRATION = '/apis/admissionregistration.k8s.io/v1';

export interface Refusal {
  /** The resource whose writes are refused. Default: `secrets`. */
  readonly resource?: string;
  /** Group and version of the resource, `example.com/v1`. Default: the core group. */
  readonly groupVersion?: string;
  /** Fields that every object of the resource must have. */
  readonly required?: Json;
  /** A CEL expression that is true for each write that the server must refuse. */
  readonly when: string;
  /** The operations to refuse. Default: creations and changes. */
  readonly operations?: readonly ('CREATE' | 'UPDATE' | 'DELETE')[];
  /** A CEL expression for the server's message. Default: `refused by <name>`. */
  readonly words?: string;
}

/** Makes the server refuse writes until the result is disposed. Resolves once the server applies the policy. */
export async function refuse(api: TestApi, name: string, refusal: Refusal): Promise<AsyncDisposable> {
  const { when, resource = 'secrets', operations = ['CREATE', 'UPDATE'], words = `'refused by ${name}'` } = refusal;
  const { groupVersion = '', required } = refusal;
  const probe = `probe-of-${name}`;
  await api.create({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingAdmissionPolicy',
    metadata: { name },
    spec: {
      matchConstraints: {
        resourceRules: [
          {
            apiGroups: [groupVersion.split('/')[0]],
            apiVersions: [groupVersion.split('/')[1] ?? 'v1'],
            resources: [resource],
            operations: [...new Set([...operations, 'CREATE'])],
          },
        ],
      },
      validations: [
        { expression: `request.name != '${probe}'`, message: 'in force' },
        {
          expression: `!(${operations.map((one) => `request.operation == '${one}'`).join(' || ')}) || !(${when})`,
          messageExpression: words,
        },
      ],
    },
  });
  await api.create({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingAdmissionPolicyBinding',
    metadata: { name },
    spec: { policyName: name, validationActions: ['Deny'] },
  });
  const object: Json = { ...required, metadata: { name: probe, namespace: 'default' } };
  const root = groupVersion === '' ? '/api/v1' : `/apis/${groupVersion}`;
  const isInForce = async (): Promise<boolean> => {
    const { status } = await api.raw('POST', `${root}/namespaces/default/${resource}`, {
      query: { dryRun: 'All' },
      body: object,
    });
    return status === 422 || status === 403;
  };
  await waitFor(isInForce, { message: `the policy ${name} to be in force` });
  return {
    async [Symbol.asyncDispose]() {
      await api.delete(`${REGISTRATION}/validatingadmissionpolicybindings/${name}`);
      await api.delete(`${REGISTRATION}/validatingadmissionpolicies/${name}`);
      await waitFor(async () => !(await isInForce()), { message: `the policy ${name} to be gone` });
    },
  };
}

/**
 * Makes the server replace one field of each Secret that is written to a namespace, until the result is disposed.
 * Resolves once the server applies the policy. The server needs `OVERWRITE_FLAGS`.
 * @param path JSON pointer of the field
 */
export async function overwrite(
  api: TestApi,
  name: string,
  { namespace, path, value }: { readonly namespace: string; readonly path: string; readonly value: string },
): Promise<AsyncDisposable> {
  await api.create({
    apiVersion: `admissionregistration.k8s.io/${MUTATING}`,
    kind: 'MutatingAdmissionPolicy',
    metadata: { name },
    spec: {
      failurePolicy: 'Fail',
      reinvocationPolicy: 'Never',
      matchConstraints: {
        resourceRules: [
          { apiGroups: [''], apiVersions: ['v1'], resources: ['secrets'], operations: ['CREATE', 'UPDATE'] },
        ],
      },
      matchConditions: [{ name: 'here', expression: `request.namespace == '${namespace}'` }],
      mutations: [
        {
          patchType: 'JSONPatch',
          jsonPatch: {
            expression: `[JSONPatch{op: "add", path: ${JSON.stringify(path)}, value: ${JSON.stringify(value)}}]`,
          },
        },
      ],
    },
  });
  await api.create({
    apiVersion: `admissionregistration.k8s.io/${MUTATING}`,
    kind: 'MutatingAdmissionPolicyBinding',
    metadata: { name },
    spec: { policyName: name },
  });
  const [field = '', ...rest] = path.slice(1).split('/');
  const isInForce = async (): Promise<boolean> => {
    const { body } = await api.raw('POST', `/api/v1/namespaces/${namespace}/secrets`, {
      query: { dryRun: 'All' },
      body: { metadata: { name: 'probe', labels: { probe: 'x' } }, data: { probe: '' } },
    });
    return rest.reduce((object: Json, key) => object?.[key], body[field]) === value;
  };
  await waitFor(isInForce, { message: `the policy ${name} to be in force` });
  return {
    async [Symbol.asyncDispose]() {
      await api.delete(`/apis/admissionregistration.k8s.io/${MUTATING}/mutatingadmissionpolicybindings/${name}`);
      await api.delete(`/apis/admissionregistration.k8s.io/${MUTATING}/mutatingadmissionpolicies/${name}`);
      await waitFor(async () => !(await isInForce()), { message: `the policy ${name} to be gone` });
    },
  };
}
