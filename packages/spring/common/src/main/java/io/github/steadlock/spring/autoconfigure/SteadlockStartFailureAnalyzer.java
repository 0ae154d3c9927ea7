package io.github.steadlock.spring.autoconfigure;

import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;

/** The analyzer that reports why Steadlock stopped the start of a program. */
class SteadlockStartFailureAnalyzer extends AbstractFailureAnalyzer<SteadlockStartException> {
    @Override
    protected FailureAnalysis analyze(Throwable root, SteadlockStartException cause) {
        return new FailureAnalysis(cause.getMessage(), cause.action(), cause);
    }
}
