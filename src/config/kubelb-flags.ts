/** The flags of KubeLB's CCM and manager that concern load balancers and gateways: taken, so that a Deployment starts, without effect. */
import { boolFlag, textFlag, type FlagTable } from './flags.ts';

const HELP = 'accepted; concerns only what KubeLB does beside SyncSecrets';

const bool = (name: string) => boolFlag(name, false, HELP);
const text = (name: string) => textFlag(name, 'value', HELP);

export const otherCcmFlags = {
  nodeAddressType: text('node-address-type'),
  enableCloudProvider: bool('enable-cloud-provider'),
  useIngressClass: bool('use-ingress-class'),
  useLoadbalancerClass: bool('use-loadbalancer-class'),
  useGatewayClass: bool('use-gateway-class'),
  disableIngressController: bool('disable-ingress-controller'),
  disableGatewayController: bool('disable-gateway-controller'),
  disableHttprouteController: bool('disable-httproute-controller'),
  disableGrpcrouteController: bool('disable-grpcroute-controller'),
  disableGatewayApi: bool('disable-gateway-api'),
  enableGatewayApi: bool('enable-gateway-api'),
  installGatewayApiCrds: bool('install-gateway-api-crds'),
  gatewayApiCrdsChannel: text('gateway-api-crds-channel'),
} satisfies FlagTable;

export const otherManagerFlags = {
  listenAddress: text('listen-address'),
  envoyCpMetricsAddr: text('envoy-cp-metrics-addr'),
  enableTenantMigration: bool('enable-tenant-migration'),
  disableGatewayApi: bool('disable-gateway-api'),
  enableGatewayApi: bool('enable-gateway-api'),
} satisfies FlagTable;

/** Which of them were given, as a sentence for the log. */
export function otherFlagsNotes(table: FlagTable, given: ReadonlySet<PropertyKey>): string[] {
  const names = Object.entries(table).flatMap(([key, { name }]) => (given.has(key) ? [`--${name}`] : []));
  if (names.length === 0) return [];
  return [`without effect, because SyncSecrets do not need them: ${names.join(', ')}`];
}
