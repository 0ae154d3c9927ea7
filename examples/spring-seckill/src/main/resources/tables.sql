CREATE SEQUENCE IF NOT EXISTS order_number;

CREATE TABLE IF NOT EXISTS vouchers (
    id BIGINT PRIMARY KEY,
    name VARCHAR(80) NOT NULL,
    first_stock BIGINT NOT NULL,
    stock BIGINT NOT NULL CHECK (stock >= 0)
);

-- Schema adds the unique index of one order for each user and voucher. Two of the three variants do not have it.
CREATE TABLE IF NOT EXISTS orders (
    id BIGINT PRIMARY KEY,
    user_id BIGINT NOT NULL,
    voucher_id BIGINT NOT NULL REFERENCES vouchers (id),
    token BIGINT,
    sold_by VARCHAR(80) NOT NULL,
    sold_at TIMESTAMP WITH TIME ZONE NOT NULL
);
CREATE INDEX IF NOT EXISTS orders_of_user ON orders (user_id, voucher_id);

-- The highest fencing token that was seen for each user's lock.
CREATE TABLE IF NOT EXISTS user_fences (
    user_id BIGINT PRIMARY KEY,
    token BIGINT NOT NULL
);
