// The programs that are bundled. Each acquires a lock and reports its fencing token, or the kind and text of the error.

const BODY = (open, name = 'bundled') => `
async function main() {
  const client = await connect(${open});
  try {
    return await client.using(${JSON.stringify(name)}, { waitMs: 5000 }, (lease) => \`token \${lease.token}\`);
  } finally {
    await client.close();
  }
}
const result = main().catch((error) => \`\${error.kind}: \${error.message}\`);
`;

/** A program with `steadlock-web` for Node. `first` is its first line. */
export const webOnNode = (first) => `${first}
import { connect } from 'steadlock-web';
import { upstash } from 'steadlock-web/upstash';
${BODY('upstash({ url: process.env.STEADLOCK_REST })')}
result.then((text) => console.log(text));
`;

/** A program with `steadlock-web` for a page or a worker of a page. It sends its result to the page's server. */
export const webInBrowser = (first, rest, cell) => `${first}
import { connect } from 'steadlock-web';
import { upstash } from 'steadlock-web/upstash';
${BODY(`upstash({ url: ${JSON.stringify(rest)} })`, cell)}
result.then((text) => fetch('/result?cell=' + ${JSON.stringify(encodeURIComponent(cell))}, { method: 'POST', body: text }));
`;

/** A program with the native package for Node. */
export const native = () => `
import { connect } from 'steadlock';
${BODY('process.env.STEADLOCK_URL')}
result.then((text) => console.log(text));
`;
