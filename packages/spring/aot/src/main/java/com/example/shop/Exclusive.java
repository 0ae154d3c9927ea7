package com.example.shop;

import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.LockKind;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.core.annotation.AliasFor;

/** A composed annotation of the program. */
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
@DistributedLock(name = "", kind = LockKind.MUTEX, waitTime = "1s")
@interface Exclusive {
    @AliasFor(annotation = DistributedLock.class, attribute = "name")
    String value();
}
