export function lexer(text: string): any[];
