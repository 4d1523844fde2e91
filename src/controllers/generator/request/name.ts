/** The name of the controller: first part of its rule keys, and in metrics and reports. */
export const GENERATOR = 'generator';
