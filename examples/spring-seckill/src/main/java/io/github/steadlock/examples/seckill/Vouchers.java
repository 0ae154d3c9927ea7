package io.github.steadlock.examples.seckill;

import java.net.URI;
import java.time.OffsetDateTime;
import java.util.List;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;

/** The HTTP interface of the shop. {@link Refusals} answers the requests that are refused. */
@RestController
@RequestMapping("/vouchers/{voucherId}")
class Vouchers {
    private static final int LATEST = 20;

    private final Shop shop;
    private final Orders orders;
    private final Seckill seckill;

    Vouchers(Shop shop, Orders orders, Seckill seckill) {
        this.shop = shop;
        this.orders = orders;
        this.seckill = seckill;
    }

    /** Buys a voucher. The header X-User takes the place of a login. */
    @PostMapping("/orders")
    ResponseEntity<Receipt> buy(
            @PathVariable long voucherId, @RequestHeader("X-User") long userId) {
        Order order = shop.buy(userId, voucherId);
        return ResponseEntity.created(URI.create("/vouchers/" + voucherId)).body(Receipt.of(order));
    }

    @GetMapping
    Voucher voucher(@PathVariable long voucherId) {
        return orders.voucher(voucherId);
    }

    /** Returns the data that the page shows. */
    @GetMapping("/board")
    Board board(@PathVariable long voucherId) {
        var latest = orders.latest(voucherId, LATEST).stream().map(Receipt::of).toList();
        return new Board(orders.voucher(voucherId), seckill.variant(), seckill.instance(), latest);
    }

    record Board(Voucher voucher, Seckill.Variant variant, String instance, List<Receipt> latest) {}

    /**
     * An order as JSON. The id is a string, because it is too large for JavaScript's numbers to
     * hold exactly.
     */
    record Receipt(
            String id, long user, long voucher, Long token, String soldBy, OffsetDateTime soldAt) {
        static Receipt of(Order order) {
            return new Receipt(
                    Long.toString(order.id()),
                    order.userId(),
                    order.voucherId(),
                    order.token(),
                    order.soldBy(),
                    order.soldAt());
        }
    }
}
