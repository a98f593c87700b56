export function qrcode(type: number, level: string): any;
