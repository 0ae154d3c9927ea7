// The programs that are bundled: each takes a lock and says its fencing token, or the kind and the text of its error.

const BODY = (open, name = 'bundled') => `
async function main() {
  const client = await connect(${open});
  try {
    return await client.using(${JSON.stringify(name)}, { waitMs: 5000 }, (lease) => \`token \${lease.token}\`);
  } finally {
    await client.close();
  }
}
const told = main().catch((error) => \`\${error.kind}: \${error.message}\`);
`;

/** `steadlock-web` on Node; `first` is a line before all others. */
export const webOnNode = (first) => `${first}
import { connect } from 'steadlock-web';
import { upstash } from 'steadlock-web/upstash';
${BODY('upstash({ url: process.env.STEADLOCK_REST })')}
told.then((text) => console.log(text));
`;

/** `steadlock-web` in a page or in a worker of one, which tells the page's server. */
export const webInBrowser = (first, rest, cell) => `${first}
import { connect } from 'steadlock-web';
import { upstash } from 'steadlock-web/upstash';
${BODY(`upstash({ url: ${JSON.stringify(rest)} })`, cell)}
told.then((text) => fetch('/told?cell=' + ${JSON.stringify(encodeURIComponent(cell))}, { method: 'POST', body: text }));
`;

/** The native package, on Node. */
export const native = () => `
import { connect } from 'steadlock';
${BODY('process.env.STEADLOCK_URL')}
told.then((text) => console.log(text));
`;
