/** Advice for the watch of an API that comes from a CRD, which may be missing (`CustomApi`). */
import { command } from '../../runtime/text/command.ts';

/** The advice for a CRD that is part of Keyferry: if it is missing, and if its watch fails. @param crd `<plural>.<group>` */
export function crdAdvice(crd: string): { readonly missing: string; readonly watch: string } {
  const install = `run \`${command('crds')} | kubectl apply --server-side -f -\``;
  return {
    missing: `the CRD ${crd} is not installed: ${install}`,
    // The CRD of an original's Helm chart names a conversion webhook, which may be gone.
    watch:
      `if the CRD ${crd} is not installed, ${install}; if it converts objects with a webhook that does not answer, first run ` +
      `\`kubectl patch crd ${crd} --type json -p '[{"op":"replace","path":"/spec/conversion","value":{"strategy":"None"}}]'\``,
  };
}
