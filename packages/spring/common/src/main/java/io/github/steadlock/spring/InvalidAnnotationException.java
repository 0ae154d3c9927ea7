package io.github.steadlock.spring;

/**
 * A {@link DistributedLock} that cannot work. The exception stops the start of the program. The
 * message names the class, the method and the attribute, and a remedy.
 */
public class InvalidAnnotationException extends IllegalStateException {
    private static final long serialVersionUID = 1;

    /** Makes the exception with a message that names the mistake and the remedy. */
    public InvalidAnnotationException(String message) {
        super(message);
    }

    /**
     * Makes the exception with a message that names the mistake and the remedy, and with the
     * exception that the mistake caused.
     */
    public InvalidAnnotationException(String message, Throwable cause) {
        super(message, cause);
    }
}
