package io.github.steadlock.internal

/** Has [write] write lines to the user's logger, one after another, away from the thread that has a line to tell. */
internal class LogThread(write: (LogLine) -> Unit) : WorkThread<LogLine>("steadlock-log", MOST, ::missing, write) {
    companion object {
        /** The most lines that wait. */
        const val MOST = 1_000
    }
}

private fun missing(lines: Long) = LogLine("warn", "$lines lines are missing here, as the logger was too slow for them")
