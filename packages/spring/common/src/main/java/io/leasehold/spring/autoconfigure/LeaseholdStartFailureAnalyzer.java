package io.leasehold.spring.autoconfigure;

import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;

/** Says why a program did not start because of Leasehold. */
class LeaseholdStartFailureAnalyzer extends AbstractFailureAnalyzer<LeaseholdStartException> {
    @Override
    protected FailureAnalysis analyze(Throwable root, LeaseholdStartException cause) {
        return new FailureAnalysis(cause.getMessage(), cause.action(), cause);
    }
}
