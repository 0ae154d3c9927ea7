package io.github.steadlock.examples.seckill;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.context.properties.EnableConfigurationProperties;

/** Sells vouchers over HTTP, one to each user. Any number of instances can run at once. */
@SpringBootApplication
@EnableConfigurationProperties(Seckill.class)
public class SeckillService {
    public static void main(String[] args) {
        SpringApplication.run(SeckillService.class, args);
    }
}
