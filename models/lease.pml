/*
 * lease.pml: one process's deadlines and the server's expiry. Requests, answers and grants take
 * any time, renewals overtake each other, the process may stop at any moment, and its clock is
 * slower than the server's. While the process believes that it holds the lock, the lock is its own.
 *
 * Mirrors the expiries in acquire.lua, hand_over.lua, renew.lua and release.lua;
 * attempt.granted, attempt.holdFromMessage, hold.apply, hold.prolong, hold.Due, Lease.Err, Lease.Extend.
 * README.md says what is left out, and what each BREAK_ macro breaks.
 */

/* Durations in ticks of the server's clock. */
#ifndef TTL
#define TTL 3
#endif
#ifndef EXTENDED
#define EXTENDED 5	/* what Extend asks for */
#endif
#ifndef WRONG
#define WRONG 1		/* how wrong, at most, the expiry is that a native acquire names */
#endif
#ifndef CLAIM
#define CLAIM 3
#endif
#ifndef CLAIMS
#define CLAIMS 1	/* whether the lock is handed over by message */
#endif
#ifndef RENEWALS
#define RENEWALS 2	/* renewals and extensions under way at once */
#endif
#ifndef STRIDE
#define STRIDE EXTENDED	/* the process's clock misses at most one tick in so many: drift */
#endif
#define LONG ((CLAIM - 1) * STRIDE)	/* stands for any longer time: no lease that old is believed in */

#ifdef BREAK_NO_DRIFT
#define drift(D) 0
#else
#define drift(D) ((D) / STRIDE + 1)
#endif

mtype = { none, native, sent, granted, queued, gone, renewed };	/* requests and their answers */
mtype = { idle, asking, resting };				/* the process, without a hold */

/*
 * The process's hold has the states of internal/engine/hold.go (type state). What a release
 * does follows from them.
 *	claimed	handed over by message. Its first renewal makes it held
 *	held	renewed until it is released, or lost
 *	retired	the client closes: its lease has ended, the lock is still to be released. It is renewed no
 *		more, but answers to renewals still count
 *	over	released, lost or expired. Its release is sent, and the server drops the lock if it is its own
 * The fifth, changing, is one of read-write locks: shares.pml.
 */
mtype = { claimed, held, retired, over };
#define steady	(stage == claimed || stage == held)	/* isSteady */
mtype = { nobody, process, other };

/* The server. */
mtype owner = nobody;
byte pttl;			/* time until the process's lock expires */
bool in_queue;
byte named;			/* time until the expiry that a native acquire names, until it is carried out */

/* The process. */
mtype stage = idle;
byte since_skip = STRIDE;	/* ticks since its clock missed one */
mtype ask = none;		/* the acquire or look under way, or its answer */
byte ask_age;			/* since it was sent, by the process's clock */
byte ask_run;			/* since it was carried out, by the server's */
byte ask_pttl;			/* in its answer */
byte anchor_age;		/* the latest ask that was answered "queued": the same two */
byte anchor_run;
bool message;			/* a grant by message */
byte message_run;		/* since it was made, by the server's clock */
short left;			/* of the lease: until its deadline, by the process's clock */
byte lease_age;			/* since the request was sent that the deadline counts from */

typedef renewal {
	mtype state = none;
	byte age;		/* since it was sent */
	byte ttl;		/* asked for, then that of its answer */
	bool current;		/* the hold that it was sent for still exists */
	bool good		/* the lock is still that of the grant that it was sent for */
}
renewal wire[RENEWALS];

byte i;
short valid;
byte age, ran;

bool believer_owns_lock = true;
bool other_keeps_its_lock = true;

#ifdef BREAK_LOSS_BY_TIMER_ONLY
#define believes	steady
#else
#define believes	(steady && left > 0)	/* Err compares clocks */
#endif

inline check() {
	believer_owns_lock = !believes || owner == process;
	assert(believer_owns_lock);
	valid = 0; age = 0; ran = 0; i = 0
}

/* leaves: the lock is no longer the process's. */
inline leaves(TO) {
	other_keeps_its_lock = !(owner == other);
	owner = TO; pttl = 0;
	for (i : 0 .. RENEWALS - 1) {
		wire[i].good = false
	}
}

/* stop is hold.stop: the hold is over, and its release is owed. */
inline stop() {
	stage = over; left = 0; lease_age = 0; message = false; message_run = 0;
	anchor_age = 0; anchor_run = 0;
	for (i : 0 .. RENEWALS - 1) {
		wire[i].current = false;
		if
		:: wire[i].state != none && wire[i].state != sent -> forget(i)
		:: else -> wire[i].age = 0
		fi
	}
}

inline forget(I) {
	wire[I].state = none; wire[I].age = 0; wire[I].ttl = 0; wire[I].current = false; wire[I].good = false
}

/* deadline sets valid to what is left of a lease that the answer grants. */
inline deadline() {
#ifdef BREAK_DEADLINE_FROM_REPLY
	valid = ask_pttl - drift(ask_pttl)
#elif defined(BREAK_DEADLINE_OF_WHOLE_TTL)
	valid = TTL - drift(TTL) - ask_age
#else
	valid = ask_pttl - drift(ask_pttl) - ask_age
#endif
}

inline end_ask() { ask = none; ask_age = 0; ask_run = 0; ask_pttl = 0 }

/* begin makes a hold in the state STATE, valid for V, counted from a request sent AGE ago. */
inline begin(STATE, V, AGE) {
	left = V;
	lease_age = AGE;
	stage = STATE; message = false; message_run = 0; anchor_age = 0; anchor_run = 0
}

inline up(T, MAX) {
	if
	:: T < MAX -> T++
	:: else
	fi
}

/* carry_out is renew.lua. */
inline carry_out(I) {
	if
	:: wire[I].good ->
#ifndef BREAK_RENEWAL_SHORTENS
		if
		:: pttl < wire[I].ttl -> pttl = wire[I].ttl
		:: else
		fi;
#else
		pttl = wire[I].ttl;
#endif
		wire[I].ttl = pttl;
		wire[I].state = renewed
#ifdef BREAK_RENEWAL_CREATES
	:: else ->
		other_keeps_its_lock = !(owner == other);
		assert(other_keeps_its_lock);
		owner = process; pttl = wire[I].ttl; wire[I].good = true; wire[I].state = renewed
#else
	:: else -> wire[I].state = gone; wire[I].ttl = 0
#endif
	fi;
	printf("server: answers a renewal %e\n", wire[I].state);
	if
	:: !wire[I].current -> forget(I); close_up(I)
	:: else
	fi
}

/* close_up moves renewals to the front, so that states which differ only in their places are one. */
inline close_up(I) {
	i = I;
	do
	:: i >= RENEWALS - 1 -> break
	:: else ->
		wire[i].state = wire[i + 1].state; wire[i].age = wire[i + 1].age; wire[i].ttl = wire[i + 1].ttl;
		wire[i].current = wire[i + 1].current; wire[i].good = wire[i + 1].good;
		forget(i + 1);
		i++
	od
}

/* take_over is hold.apply: of several answers, that to the latest request counts, or one that gives more. */
inline take_over(I) {
	if
	:: wire[I].state == gone -> printf("process: is told that it lost the lock\n"); stop()
	:: wire[I].state == renewed ->
#ifdef BREAK_DEADLINE_FROM_REPLY
		valid = wire[I].ttl - drift(wire[I].ttl);
#else
		valid = wire[I].ttl - drift(wire[I].ttl) - wire[I].age;
#endif
		if
		:: wire[I].age < lease_age || valid > left ->
			left = (valid > 0 -> valid : 0); lease_age = wire[I].age
		:: else
		fi;
		if
		:: stage == claimed -> stage = held
		:: else
		fi;
		printf("process: reads that it is renewed, for %d\n", left);
		forget(I); close_up(I)
	fi
}

inline server_tick() {
	named = (named > 0 -> named - 1 : 0);
	if
	:: owner == process ->
		pttl--;
		if
		:: pttl == 0 -> leaves(nobody); other_keeps_its_lock = true; printf("server: the lock expires\n")
		:: else
		fi
	:: else
	fi;
#if CLAIMS
	if
	:: ask == queued -> up(ask_run, LONG)
	:: else
	fi;
	if
	:: stage == resting -> up(anchor_run, LONG)
	:: else
	fi;
	if
	:: message -> up(message_run, LONG)
	:: else
	fi
#else
	skip
#endif
}

inline process_tick() {
	if
	:: ask != none -> up(ask_age, LONG)
	:: else
	fi;
	if
	:: CLAIMS && stage == resting -> up(anchor_age, LONG)
	:: else
	fi;
	if
	:: steady || stage == retired -> up(lease_age, LONG)
	:: else
	fi;
	if
	:: left > 0 -> left--
	:: else
	fi;
	for (i : 0 .. RENEWALS - 1) {
		if
		:: wire[i].state != none && wire[i].current -> up(wire[i].age, LONG)
		:: else
		fi
	}
}

active proctype model() {
	do
	/* It asks, and looks when it waits. The request reaches the server, and is answered. */
	:: d_step { stage == idle -> stage = asking; ask = sent; printf("process: asks\n") }
	:: atomic { stage == idle -> stage = asking; ask = native; printf("process: asks natively\n");
		if
		:: named = TTL
		:: WRONG > 0 -> named = TTL - WRONG
		:: WRONG > 0 -> named = TTL + WRONG
		fi }
	:: d_step { ask == native ->
		if
		:: owner != nobody || named == 0 -> ask = sent; ask_age = 0; printf("server: does nothing; process: asks by script\n")
		:: else -> owner = process; pttl = named; ask = granted; ask_pttl = named; printf("server: answers granted\n")
		fi;
		named = 0; ask_run = 0;
		check() }
	:: d_step { ask == native -> end_ask(); named = 0; stop(); printf("process: gives up\n"); check() }
	:: d_step { stage == resting -> stage = asking; ask = sent; printf("process: looks\n") }
	:: d_step { ask == sent ->
		if
		:: owner == process -> 			/* it was handed the lock for a claim */
			if
			:: pttl < TTL -> pttl = TTL
			:: else
			fi;
			ask = granted; ask_pttl = pttl
		:: owner == nobody ->
			owner = process; pttl = TTL; in_queue = false; ask = granted; ask_pttl = TTL
		:: owner == other -> in_queue = true; ask = queued; message = false; message_run = 0
		fi;
		ask_run = 0;
		printf("server: answers %e\n", ask);
		check() }
	:: d_step { ask != none && ask != native -> ask = sent; ask_age = 0; ask_run = 0; ask_pttl = 0; printf("process: asks again\n"); check() }
	:: d_step { ask == queued ->
		printf("process: reads that it is queued\n");
		anchor_age = ask_age; anchor_run = ask_run; end_ask();
		stage = resting;
		check() }
	:: d_step { ask == granted ->
		deadline();
		if
		:: valid > 0 -> begin(held, valid, ask_age); printf("process: reads that it is granted, for %d\n", valid)
		:: else -> stop(); printf("process: reads a grant too late\n")
		fi;
		end_ask();
		check() }

	/* A grant by message. */
	:: d_step { stage == resting && message ->
		age = anchor_age;
		ran = (anchor_run > message_run -> anchor_run - message_run : 0);
		valid = CLAIM - drift(age + CLAIM);
		if
		:: age > ran -> valid = valid - (age - ran)
		:: else
		fi;
#ifdef BREAK_CLAIM_FROM_ARRIVAL
		valid = CLAIM - drift(CLAIM);
#endif
		if
		:: 4 * valid >= CLAIM -> printf("process: reads a grant, for %d\n", valid); begin(claimed, valid, anchor_age)
		:: else ->
			printf("process: reads a grant that it confirms\n");
			message = false; message_run = 0; stage = asking; ask = sent
		fi;
		check() }

	/* It renews and extends; several may be under way. */
	:: atomic { believes && wire[RENEWALS - 1].state == none ->
		i = 0;
		do
		:: wire[i].state == none -> break
		:: else -> i++
		od;
		wire[i].state = sent; wire[i].current = true; wire[i].good = owner == process;
		if
		:: wire[i].ttl = TTL; printf("process: renews\n")
		:: wire[i].ttl = EXTENDED; printf("process: extends\n")
		fi;
		i = 0 }
	:: d_step { wire[0].state == sent -> carry_out(0); check() }
	:: d_step { wire[0].state == renewed || wire[0].state == gone -> take_over(0); check() }
	:: d_step { wire[0].state != none -> forget(0); close_up(0); printf("a renewal or its answer is lost\n"); check() }
#if RENEWALS > 1
	:: d_step { wire[1].state == sent -> carry_out(1); check() }
	:: d_step { wire[1].state == renewed || wire[1].state == gone -> take_over(1); check() }
	:: d_step { wire[1].state != none -> forget(1); close_up(1); printf("a renewal or its answer is lost\n"); check() }
#endif
#if RENEWALS > 2
	:: d_step { wire[2].state == sent -> carry_out(2); check() }
	:: d_step { wire[2].state == renewed || wire[2].state == gone -> take_over(2); check() }
	:: d_step { wire[2].state != none -> forget(2); printf("a renewal or its answer is lost\n"); check() }
#endif

	/* Its client closes. It notices its deadline, or releases. The release reaches the server. */
	:: d_step { steady -> printf("process: closes\n"); stage = retired; check() }
	:: d_step { steady || stage == retired -> printf("process: ends its hold\n"); stop(); check() }
	:: d_step { stage == over ->
		printf("server: releases\n");
#ifdef BREAK_PLAIN_DEL
		leaves(nobody);
		assert(other_keeps_its_lock);
#else
		if
		:: owner == process -> leaves(nobody)
		:: else
		fi;
#endif
		in_queue = false; other_keeps_its_lock = true;
		stage = idle;
		check() }

	/* Another process takes the lock, and believes in it at once; it hands it over, or dies. */
	:: d_step { owner == nobody -> owner = other; printf("other: takes the lock\n"); check() }
	:: d_step { owner == other -> owner = nobody; printf("other: is gone\n"); check() }
#if CLAIMS
	:: d_step { owner == other && in_queue ->
		owner = process; pttl = CLAIM; in_queue = false; message = true; message_run = 0;
		printf("other: hands it to the process\n");
		check() }
	:: d_step { message -> message = false; message_run = 0; printf("the message is lost\n"); check() }
#endif

	/* Time, by both clocks or by the server's alone. */
	:: d_step { since_skip >= STRIDE -> printf("a tick that the process's clock misses\n"); server_tick(); since_skip = 1; check() }
	:: d_step { true -> printf("a tick\n"); server_tick(); up(since_skip, STRIDE); process_tick(); check() }
	od
}
