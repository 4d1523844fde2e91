/** The CustomResourceDefinitions for `keyferry crds`. They are part of the program, so it needs no other file. */
import { CRDS_YAML } from './crds.generated.ts';

/** All CustomResourceDefinitions as YAML documents, ready for `kubectl apply -f -`. */
export function crds(): string {
  return CRDS_YAML;
}
