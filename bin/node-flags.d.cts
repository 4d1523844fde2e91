declare const nodeFlags: string[];
export = nodeFlags;
