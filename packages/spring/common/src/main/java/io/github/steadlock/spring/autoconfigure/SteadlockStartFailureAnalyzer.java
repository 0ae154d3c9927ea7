package io.github.steadlock.spring.autoconfigure;

import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;

/** Says why a program did not start because of Steadlock. */
class SteadlockStartFailureAnalyzer extends AbstractFailureAnalyzer<SteadlockStartException> {
    @Override
    protected FailureAnalysis analyze(Throwable root, SteadlockStartException cause) {
        return new FailureAnalysis(cause.getMessage(), cause.action(), cause);
    }
}
