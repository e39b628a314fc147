import { endianness } from "node:os";
import process from "node:process";

/**
 * Returns the seccomp filter against user namespaces and setuid bits; `undefined` for unknown architectures.
 */
export function systemCallFilter(arch: string = process.arch): Uint8Array | undefined {
  const calls = ARCHITECTURES[arch];
  return calls === undefined || endianness() !== "LE" ? undefined : assembled(calls);
}

interface Calls {
  /** Kernel constant of the architecture (`AUDIT_ARCH_…`). */
  readonly audit: number;
  /** First number of another ABI's system calls. */
  readonly foreign?: number;
  /** Calls with flags in the first argument that create a user namespace. */
  readonly namespaces: readonly number[];
  /** Calls that set a mode, with that argument's position. */
  readonly modes: readonly (readonly [call: number, mode: number])[];
  /** Calls that set a mode if their flags create a file, with both positions. */
  readonly opens: readonly (readonly [call: number, flags: number, mode: number])[];
}

/** Calls with arguments in memory, which filters can't read: `io_uring_setup`, `clone3`, `openat2`. */
const UNREADABLE = [425, 435, 437];

const FCHMODAT2 = [452, 2] as const;

const ARCHITECTURES: Readonly<Record<string, Calls>> = {
  x64: {
    audit: 0xc000003e,
    foreign: 0x40000000,
    // clone, unshare; setns enters a namespace that exists
    namespaces: [56, 272],
    // chmod, fchmod, fchmodat, mknod, mknodat, creat
    modes: [[90, 1], [91, 1], [268, 2], [133, 1], [259, 2], [85, 1], FCHMODAT2],
    // open, openat
    opens: [[2, 1, 2], [257, 2, 3]],
  },
  arm64: {
    audit: 0xc00000b7,
    namespaces: [220, 97],
    // fchmod, fchmodat, mknodat
    modes: [[52, 1], [53, 2], [33, 2], FCHMODAT2],
    opens: [[56, 2, 3]],
  },
};

const CLONE_NEWUSER = 0x10000000;
const SETUID_AND_SETGID = 0o6000;
/** `O_CREAT`, and the distinguishing bit of `O_TMPFILE`. */
const CREATES = 0o100 | 0o20000000;

const LOAD = 0x20;
const JUMP_IF_EQUAL = 0x15;
const JUMP_IF_AT_LEAST = 0x35;
const JUMP_IF_SET = 0x45;
const RETURN = 0x06;

const ALLOWED = 0x7fff0000;
const NOT_PERMITTED = 0x00050001;
/** `ENOSYS`: programs fall back to an older call. */
const NO_SUCH_CALL = 0x00050026;

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number];

/** Loads the lower half of an argument. */
const argument = (at: number): Instruction => [LOAD, 0, 0, 16 + 8 * at];

const end = (result: number): Instruction => [RETURN, 0, 0, result];

/** Instructions that return EPERM if one of the bits is set. */
const refuse = (at: number, bits: number): readonly Instruction[] => [
  argument(at),
  [JUMP_IF_SET, 0, 1, bits],
  end(NOT_PERMITTED),
  end(ALLOWED),
];

function assembled({ audit, foreign, namespaces, modes, opens }: Calls): Uint8Array {
  const on = (call: number, then: readonly Instruction[]): readonly Instruction[] => [
    [JUMP_IF_EQUAL, 0, then.length, call],
    ...then,
  ];
  const program: readonly Instruction[] = [
    [LOAD, 0, 0, 4],
    [JUMP_IF_EQUAL, 1, 0, audit],
    end(NO_SUCH_CALL),
    [LOAD, 0, 0, 0],
    ...(foreign === undefined ? [] : [[JUMP_IF_AT_LEAST, 0, 1, foreign] as const, end(NO_SUCH_CALL)]),
    ...UNREADABLE.flatMap((call) => on(call, [end(NO_SUCH_CALL)])),
    ...namespaces.flatMap((call) => on(call, refuse(0, CLONE_NEWUSER))),
    ...modes.flatMap(([call, mode]) => on(call, refuse(mode, SETUID_AND_SETGID))),
    ...opens.flatMap(([call, flags, mode]) =>
      on(call, [
        argument(flags),
        [JUMP_IF_SET, 1, 0, CREATES],
        end(ALLOWED),
        ...refuse(mode, SETUID_AND_SETGID),
      ])
    ),
    end(ALLOWED),
  ];
  const bytes = new DataView(new ArrayBuffer(8 * program.length));
  for (const [at, [code, ifTrue, ifFalse, value]] of program.entries()) {
    bytes.setUint16(8 * at, code, true);
    bytes.setUint8(8 * at + 2, ifTrue);
    bytes.setUint8(8 * at + 3, ifFalse);
    bytes.setUint32(8 * at + 4, value, true);
  }
  return new Uint8Array(bytes.buffer);
}
