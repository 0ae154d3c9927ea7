package io.github.steadlock.examples.seckill;

import io.github.steadlock.LockTimeoutException;
import io.github.steadlock.SteadlockException;
import io.github.steadlock.spring.CommitRefusedException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatus;
import org.springframework.http.ProblemDetail;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.RestControllerAdvice;

/**
 * The replies to users who get no voucher. Each refusal has a different status, and a body of type
 * `application/problem+json`.
 */
@RestControllerAdvice
class Refusals {
    private static final Logger LOG = LoggerFactory.getLogger(Refusals.class);

    /** The wait for the lock timed out. The client can send the request again soon. */
    @ExceptionHandler
    ResponseEntity<ProblemDetail> busy(LockTimeoutException timeout) {
        return later(
                HttpStatus.TOO_MANY_REQUESTS, "busy", "another request of yours is being served");
    }

    /**
     * The lock could not be acquired, or its lease was lost before or after the commit. The client
     * can send the request again here too: if the order was committed, the reply is "bought
     * already".
     */
    @ExceptionHandler({SteadlockException.class, CommitRefusedException.class})
    ResponseEntity<ProblemDetail> withoutLock(RuntimeException failure) {
        LOG.warn("a request was refused: {}", failure.getMessage());
        return later(HttpStatus.SERVICE_UNAVAILABLE, "unavailable", "the shop cannot sell for now");
    }

    @ExceptionHandler
    ProblemDetail boughtAlready(Refusal.BoughtAlready refusal) {
        var problem = problem(HttpStatus.CONFLICT, "bought already", refusal.getMessage());
        problem.setProperty("foundLate", refusal.foundLate());
        return problem;
    }

    @ExceptionHandler
    ProblemDetail soldOut(Refusal.SoldOut refusal) {
        return problem(HttpStatus.GONE, "sold out", refusal.getMessage());
    }

    @ExceptionHandler
    ProblemDetail superseded(Refusal.Superseded refusal) {
        return problem(HttpStatus.PRECONDITION_FAILED, "superseded", refusal.getMessage());
    }

    @ExceptionHandler
    ProblemDetail noSuchVoucher(Refusal.NoSuchVoucher refusal) {
        return problem(HttpStatus.NOT_FOUND, "no such voucher", refusal.getMessage());
    }

    private static ResponseEntity<ProblemDetail> later(
            HttpStatus status, String title, String detail) {
        return ResponseEntity.status(status)
                .header(HttpHeaders.RETRY_AFTER, "1")
                .body(problem(status, title, detail));
    }

    private static ProblemDetail problem(HttpStatus status, String title, String detail) {
        var problem = ProblemDetail.forStatusAndDetail(status, detail);
        problem.setTitle(title);
        return problem;
    }
}
