// The examples are test files themselves.
import "../examples/basket.js";
