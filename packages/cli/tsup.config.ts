import { application } from "@tooling/build";

// The doctor's page is carried along: whoever installs the program has no repository to look it up in.
export default { ...application(["src/main.ts"]), loader: { ".md": "text" } };
