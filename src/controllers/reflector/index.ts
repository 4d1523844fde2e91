/** The reflector controller: its rules are objects with annotations of emberstack/kubernetes-reflector. */
import { annotatedController, watchedObjects } from '../common/annotated/controller.ts';
import type { ControllerEntry } from '../common/context.ts';
import { ReflectorRules } from './rules.ts';
import { isReadAnnotation } from './words.ts';

export const reflector: ControllerEntry = {
  name: 'reflector',
  component: 'reflector',
  annotationReader: () => isReadAnnotation,
  create: (context) => {
    const rules = new ReflectorRules(context.scope, watchedObjects(context.cluster));
    return annotatedController(context, rules);
  },
};
