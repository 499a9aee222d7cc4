import { application } from "@tooling/build";

export default application(["src/main.ts"]);
