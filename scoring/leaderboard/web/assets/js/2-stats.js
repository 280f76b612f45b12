// Two-sided p of Student's t with df degrees of freedom, through the regularised incomplete beta function
// (continued fraction by Lentz).
function studentP(t, df) {
  const x = df / (df + t * t), a = df / 2, b = 0.5;
  if (!isFinite(t)) return 0;
  const logGamma = (z) => {
    const c = [76.18009172947146, -86.50532032941677, 24.01409824083091, -1.231739572450155, 0.001208650973866179, -0.000005395239384953];
    let s = 1.000000000190015;
    c.forEach((v, i) => (s += v / (z + 1 + i)));
    return -(z + 5.5) + (z + 0.5) * Math.log(z + 5.5) + Math.log((2.5066282746310005 * s) / z);
  };
  const fraction = (x, a, b) => {
    let c = 1, d = 1 - ((a + b) * x) / (a + 1);
    d = 1 / (Math.abs(d) < 1e-300 ? 1e-300 : d);
    let h = d;
    for (let m = 1; m < 300; m++) {
      for (const v of [(m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m)), (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1))]) {
        d = 1 + v * d; c = 1 + v / c;
        if (Math.abs(d) < 1e-300) d = 1e-300;
        if (Math.abs(c) < 1e-300) c = 1e-300;
        d = 1 / d; h *= d * c;
      }
    }
    return h;
  };
  if (x >= 1) return 1;
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log(1 - x));
  return x < (a + 1) / (a + b + 2) ? (front * fraction(x, a, b)) / a : 1 - (front * fraction(1 - x, b, a)) / b;
}
function studentQuantile(df) { // of 0.975, by bisection
  let lo = 0, hi = 1000;
  for (let i = 0; i < 80; i++) { const mid = (lo + hi) / 2; if (studentP(mid, df) > 0.05) lo = mid; else hi = mid; }
  return (lo + hi) / 2;
}
// A difference with its standard error: its interval and p. Without degrees of freedom there is neither.
function tested(difference, se, df) {
  if (!df) return { difference, se, df: 0, half: null, p: null };
  return { difference, se, df, half: studentQuantile(df) * se, p: se ? studentP(difference / se, df) : difference ? 0 : 1 };
}
function paired(x, y) { // of the same replicates
  const d = x.map((v, i) => (v === null || !defined(y[i]) ? null : v - y[i])).filter((v) => v !== null);
  if (!d.length) return null;
  const mu = mean(d), se = d.length > 1 ? Math.sqrt(d.reduce((s, v) => s + (v - mu) ** 2, 0) / (d.length - 1) / d.length) : null;
  return tested(mu, se, d.length - 1);
}
// The weighted sum of independent differences, with the degrees of freedom of Welch and Satterthwaite.
function combined(list) { // of [weight, difference]
  const variance = list.reduce((s, [w, d]) => s + (w * d.se) ** 2, 0), rest = list.reduce((s, [w, d]) => s + (w * d.se) ** 4 / d.df, 0);
  return tested(list.reduce((s, [w, d]) => s + w * d.difference, 0), Math.sqrt(variance), list.every(([, d]) => d.df) ? (rest ? variance ** 2 / rest : list[0][1].df) : 0);
}
function holm(list) { // adjusted p, in place
  const known = list.filter((r) => r.p !== null).sort((a, b) => a.p - b.p);
  let least = 0;
  known.forEach((r, i) => { least = Math.max(least, Math.min(1, r.p * (known.length - i))); r.adjusted = least; });
}
