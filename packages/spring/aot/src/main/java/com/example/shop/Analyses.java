package com.example.shop;

import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.boot.diagnostics.FailureAnalysisReporter;

/** Keeps the analysis of the last start that failed, as a user would read it. */
class Analyses implements FailureAnalysisReporter {
    private static volatile String latest = "";

    @Override
    public void report(FailureAnalysis analysis) {
        latest = analysis.getDescription() + "\n" + analysis.getAction();
    }

    static String latest() {
        return latest;
    }
}
