-- Orders, and their invoices, whose numbers have no gaps.
CREATE TABLE orders (
	id        BIGINT PRIMARY KEY,
	customer  TEXT NOT NULL,
	cents     BIGINT NOT NULL,
	cancelled BOOLEAN NOT NULL DEFAULT false
);
CREATE TABLE invoices (
	number   BIGINT PRIMARY KEY,
	order_id BIGINT NOT NULL UNIQUE REFERENCES orders,
	document TEXT NOT NULL,
	fence    BIGINT NOT NULL
);

-- The highest fence seen, for package fence.
CREATE TABLE holdfast_marks (
	resource TEXT PRIMARY KEY,
	fence    BIGINT NOT NULL,
	owner    TEXT NOT NULL
);

INSERT INTO orders (id, customer, cents) SELECT n, 'customer ' || n, 1000 + n FROM generate_series(1, 20) AS n;
