
// Numbers as Python writes them: three digits, and of two that are equally near the even one.
const fixed = (value, places) => {
  const text = value.toFixed(places), exact = value.toFixed(places + 40);
  const tie = /5(0{39})$/.test(exact), kept = exact.slice(0, places ? -40 : -41);
  return tie && "02468".includes(kept.slice(-1)) ? kept : text;
};
const grouped = text => text.replace(/^\d+/, whole => whole.replace(/\B(?=(\d{3})+$)/g, ","));
const threeDigits = value => {
  if (value === 0) return "0";
  if (value < 0.001) return "<0.001";
  const places = [99.95, 9.995, 0.9995, 0.09995, 0.009995].findIndex(least => value >= least);
  return grouped(fixed(value, places < 0 ? 5 : places));
};
