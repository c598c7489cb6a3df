//! The sections of a fat binary: device code, and the wrappers that register it.

use goblin::elf::{
    reloc::R_X86_64_RELATIVE,
    section_header::{SHF_ALLOC, SHF_WRITE, SHT_PROGBITS},
};

use super::{
    layout::Layout,
    plan::{DeviceRelocations, Plan},
    shape::{Section, allocated},
};

pub(super) const DT_RELR: u64 = 36;
const DT_RELRSZ: u64 = 35;
const DT_RELRENT: u64 = 37;
const SHT_RELR: u32 = 19;

const CODE: &str = ".hip_fatbin";
const WRAPPERS: &str = ".hipFatBinSegment";
const WRAPPER: u64 = 24;
/// `HIPF`, and the version.
const MAGIC: [u32; 2] = [0x4849_5046, 1];

pub(super) fn code(plan: &Plan) -> Option<Section> {
    let device = plan.device.as_ref()?;
    Some(allocated(CODE, SHT_PROGBITS, device.bytes.clone()).align(0x1000))
}

pub(super) fn wrappers(plan: &Plan, at: &Layout) -> Option<Section> {
    let device = plan.device.as_ref()?;
    let is_zero = !plan.relocated(DeviceRelocations::Rela).is_empty();
    let mut bytes = Vec::new();
    for offset in &device.wrappers {
        let address = at.address(CODE) + offset;
        append!(bytes, MAGIC[0], MAGIC[1]);
        append!(bytes, if is_zero { 0 } else { address }, 0_u64);
    }
    let wrappers = allocated(WRAPPERS, SHT_PROGBITS, bytes);
    Some(wrappers.flags(SHF_ALLOC | SHF_WRITE).align(8))
}

/// Entries of `.rela.dyn` for the wrappers.
pub(super) fn relative(plan: &Plan, at: &Layout) -> Vec<u8> {
    let offsets = plan.relocated(DeviceRelocations::Rela);
    let entries = offsets.iter().zip(pointers(at));
    let entries = entries.flat_map(|(offset, pointer)| {
        let target = at.address(CODE) + offset;
        [pointer, u64::from(R_X86_64_RELATIVE), target]
    });
    entries.flat_map(u64::to_le_bytes).collect()
}

/// One address for each wrapper: what could be a bitmap may be a list.
pub(super) fn packed(plan: &Plan, at: &Layout) -> Option<Section> {
    let offsets = plan.relocated(DeviceRelocations::Relr);
    let addresses = pointers(at).take(offsets.len());
    let bytes: Vec<u8> = addresses.flat_map(u64::to_le_bytes).collect();
    let packed = |bytes| allocated(".relr.dyn", SHT_RELR, bytes).align(8).entries(8);
    (!bytes.is_empty()).then(|| packed(bytes))
}

/// What the dynamic table says about them.
pub(super) fn packed_size(count: usize) -> Vec<(u64, u64)> {
    if count == 0 {
        return Vec::new();
    }
    vec![(DT_RELRSZ, count as u64 * 8), (DT_RELRENT, 8)]
}

/// The address of the pointer in each wrapper.
fn pointers(at: &Layout) -> impl Iterator<Item = u64> {
    let start = at.address(WRAPPERS) + 8;
    (0..).map(move |index: u64| start + index * WRAPPER)
}
