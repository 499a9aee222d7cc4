export { moveLetters, readLetters } from "./letters.js";
