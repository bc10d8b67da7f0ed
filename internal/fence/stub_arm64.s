#include "go_asm.h"
#include "textflag.h"

// The program of stub.go for arm64: see there what it does. It runs without Go's runtime, as a process of its
// own: it has only the stack that the kernel made, with argc, argv and envp, and keeps what it needs in
// registers:
//
//	R19 argv   R20 envp   R21 the capability that comes next   R22 those to be dropped

// func codeStart() unsafe.Pointer
TEXT ·codeStart(SB), NOSPLIT, $0-8
	MOVD $code<>(SB), R0
	MOVD R0, ret+0(FP)
	RET

TEXT code<>(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	MOVD (RSP), R0
	ADD  $8, RSP, R19
	ADD  R0<<3, R19, R20
	ADD  $8, R20

	// fcntl(3, F_SETFD, FD_CLOEXEC), and of 4
	MOVD $25, R8
	MOVD $3, R0
	MOVD $2, R1
	MOVD $1, R2
	SVC
	MOVD $25, R8
	MOVD $4, R0
	SVC

	// prctl(PR_CAPBSET_DROP, c) for each capability to be dropped; without the right to do so there is none to
	// be gained
	MOVD $(const_undoing), R22
	MOVD $0, R21
next:
	LSR  R21, R22, R0
	TBZ  $0, R0, kept
	MOVD $167, R8
	MOVD $24, R0
	MOVD R21, R1
	MOVD $0, R2
	MOVD $0, R3
	MOVD $0, R4
	SVC
kept:
	ADD  $1, R21
	CMP  $64, R21
	BNE  next

	// prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL); a kernel before 4.3 has none
	MOVD $167, R8
	MOVD $47, R0
	MOVD $4, R1
	MOVD $0, R2
	MOVD $0, R3
	MOVD $0, R4
	SVC

	// capget and capset, with a header at SP and the sets (effective, permitted, inheritable, of 32 each) 8
	// bytes on
	SUB  $32, RSP
	MOVD $0x20080522, R0
	MOVD R0, (RSP)
	MOVD $90, R8
	MOVD RSP, R0
	ADD  $8, RSP, R1
	SVC
	CBNZ R0, failed
	MVN  R22, R22
	MOVWU 8(RSP), R0
	AND  R22, R0
	MOVW R0, 8(RSP)
	MOVWU 12(RSP), R0
	AND  R22, R0
	MOVW R0, 12(RSP)
	MOVWU 16(RSP), R0
	AND  R22, R0
	MOVW R0, 16(RSP)
	LSR  $32, R22
	MOVWU 20(RSP), R0
	AND  R22, R0
	MOVW R0, 20(RSP)
	MOVWU 24(RSP), R0
	AND  R22, R0
	MOVW R0, 24(RSP)
	MOVWU 28(RSP), R0
	AND  R22, R0
	MOVW R0, 28(RSP)
	MOVD $91, R8
	MOVD RSP, R0
	ADD  $8, RSP, R1
	SVC
	CBNZ R0, failed

	// prctl(PR_SET_NO_NEW_PRIVS, 1)
	MOVD $167, R8
	MOVD $38, R0
	MOVD $1, R1
	MOVD $0, R2
	MOVD $0, R3
	MOVD $0, R4
	SVC
	CBNZ R0, failed

	// landlock_restrict_self(3, 0)
	MOVD $446, R8
	MOVD $3, R0
	MOVD $0, R1
	SVC
	CBNZ R0, failed

	// seccomp(SECCOMP_SET_MODE_FILTER, 0, the filter)
	MOVD $277, R8
	MOVD $1, R0
	MOVD $0, R1
	MOVD $(const_filterAt), R2
	SVC
	CBNZ R0, failed

	// execve(argv[0], argv + 1, envp)
	MOVD $221, R8
	MOVD (R19), R0
	ADD  $8, R19, R1
	MOVD R20, R2
	SVC
	NEG  R0, R0
	B    told

failed:
	// The error of entering is told apart from that of execve.
	NEG  R0, R0
	ORR  $0x10000, R0
told:
	// write(4, the error, 4)
	MOVD R0, (RSP)
	MOVD $64, R8
	MOVD $4, R0
	MOVD RSP, R1
	MOVD $4, R2
	SVC
	// exit_group(127)
	MOVD $94, R8
	MOVD $127, R0
	SVC
	BRK

// The end of the program.
TEXT ·end(SB), NOSPLIT|NOFRAME, $0
	RET

// func codeEnd() unsafe.Pointer
TEXT ·codeEnd(SB), NOSPLIT, $0-8
	MOVD $·end(SB), R0
	MOVD R0, ret+0(FP)
	RET
