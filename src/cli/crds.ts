/** The CustomResourceDefinitions, for `keyferry crds`. They are in the program, so that it needs no file beside it. */
import { CRDS_YAML } from './crds.generated.ts';

/** Every CustomResourceDefinition that Keyferry brings, as YAML documents ready for `kubectl apply -f -`. */
export function crds(): string {
  return CRDS_YAML;
}
