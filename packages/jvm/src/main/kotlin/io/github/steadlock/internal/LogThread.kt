package io.github.steadlock.internal

/**
 * The thread that writes lines to the program's logger by [write], one after another. No thread that logs a line waits
 * for the logger.
 */
internal class LogThread(
    write: (LogLine) -> Unit,
) : WorkThread<LogLine>("steadlock-log", CAPACITY, ::droppedItem, write) {
    companion object {
        /** The largest number of lines that wait. */
        const val CAPACITY = 1_000
    }
}

private fun droppedItem(lines: Long) = LogLine("warn", "$lines lines were dropped, because the logger was too slow")
