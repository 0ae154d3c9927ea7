// Loads the API of OpenTelemetry, which is not a dependency of the package.

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

/** Calls OpenTelemetry. A failure does not reach the caller: this function reports it and returns `undefined`. */
export function callSafely<T>(what: () => T): T | undefined {
  try {
    return what();
  } catch (error) {
    try {
      api.diag.error('steadlock: telemetry failed', error);
    } catch {
      // The program can have set the logger of `diag`, which can fail too.
    }
    return undefined;
  }
}
