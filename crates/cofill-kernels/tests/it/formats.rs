//! Blocks as numbers. That they are those of the tensor library is tested in `cofill-model`, which has it.

use cofill_kernels::Format;

#[test]
fn known_blocks_become_known_numbers() {
    let one = 0x3c00u16.to_le_bytes();
    let mut out = [0.0; 32];
    // Q8_0: a factor of 1, then 32 whole numbers.
    let mut block = [&one[..], &[0; 32]].concat();
    (block[2], block[3], block[33]) = (0x80, 127, 0xff);
    Format::Q8_0.widen(&block, &mut out);
    assert_eq!((out[0], out[1], out[31]), (-128.0, 127.0, -1.0));
    // Q4_0: low halves first, 8 less.
    let mut block = [&one[..], &[0x88; 16]].concat();
    block[2] = 0xf0;
    Format::Q4_0.widen(&block, &mut out);
    assert_eq!((out[0], out[16], out[1]), (-8.0, 7.0, 0.0));
    // Q5_0: the fifth bit of weight 0 is bit 0 of four bytes; 16 less.
    let mut block = [&one[..], &[0; 20]].concat();
    block[2] = 1;
    Format::Q5_0.widen(&block, &mut out);
    assert_eq!((out[0], out[1]), (0.0, -16.0));
    // Halves: 1, the smallest subnormal, and −2; bf16 has f32's upper bits.
    let mut out = [0.0; 3];
    Format::F16.widen(&[0x00, 0x3c, 0x01, 0x00, 0x00, 0xc0], &mut out);
    assert_eq!(out, [1.0, 2f32.powi(-24), -2.0]);
    Format::Bf16.widen(&[0x80, 0x3f, 0x00, 0xc0, 0x00, 0x00], &mut out);
    assert_eq!(out, [1.0, -2.0, 0.0]);
}
