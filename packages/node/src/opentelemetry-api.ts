// Loads the API of OpenTelemetry, which the package itself does not depend on.

type Api = typeof import('@opentelemetry/api');

function load(): Api {
  try {
    return require('@opentelemetry/api');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw cause;
    throw new Error(
      'steadlock/opentelemetry needs the package @opentelemetry/api, which is missing; ' +
        'install it with `npm install @opentelemetry/api`',
      { cause },
    );
  }
}

export const api: Api = load();

/** Does something with OpenTelemetry for somebody who must not notice if it fails; gives nothing then. */
export function guarded<T>(what: () => T): T | undefined {
  try {
    return what();
  } catch (error) {
    try {
      api.diag.error('steadlock: telemetry failed', error);
    } catch {
      // Where failures are told is the program's own, and may fail too.
    }
    return undefined;
  }
}
