package io.github.steadlock.spring.aop;

import io.github.steadlock.spring.InvalidAnnotationException;
import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;

/** The analyzer that reports the annotation that stops the start, instead of a stack trace. */
class InvalidAnnotationFailureAnalyzer extends AbstractFailureAnalyzer<InvalidAnnotationException> {
    @Override
    protected FailureAnalysis analyze(Throwable root, InvalidAnnotationException cause) {
        return new FailureAnalysis(
                cause.getMessage(), "Correct the annotation as the message says.", cause);
    }
}
