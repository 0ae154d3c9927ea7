package io.github.steadlock.spring;

/**
 * A {@link DistributedLock} cannot work as it is written. It stops the start of the program; the
 * message names the class, the method and the attribute, and says what to write.
 */
public class InvalidAnnotationException extends IllegalStateException {
    private static final long serialVersionUID = 1;

    /** With what is wrong and how to mend it. */
    public InvalidAnnotationException(String message) {
        super(message);
    }

    /** With what is wrong and how to mend it, and what was thrown because of it. */
    public InvalidAnnotationException(String message, Throwable cause) {
        super(message, cause);
    }
}
