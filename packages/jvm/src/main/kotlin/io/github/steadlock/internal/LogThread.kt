package io.github.steadlock.internal

/**
 * The thread that writes lines to the program's logger by [write], one after another. No thread that logs a line waits
 * for the logger.
 */
internal class LogThread(write: (LogLine) -> Unit) : WorkThread<LogLine>("steadlock-log", MOST, ::missing, write) {
    companion object {
        /** The largest number of lines that wait. */
        const val MOST = 1_000
    }
}

private fun missing(lines: Long) = LogLine("warn", "$lines lines are missing here, as the logger was too slow for them")
